"""The command line. A verb parses, calls one function and prints; it imports torch only inside."""
