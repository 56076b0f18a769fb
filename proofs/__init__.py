"""Promises that take long to prove, each with a make target; `make test` proves a part of each."""
