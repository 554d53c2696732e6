"""What is measured along one attribute: an operator is one file, with the same methods in the same order."""
