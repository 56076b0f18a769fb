from glassformer.cli.main import main

main()
