"""What tests of several rooms share: small towns, feeds, result files."""
