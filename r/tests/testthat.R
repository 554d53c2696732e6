library(testthat)
library(residua)
test_check("residua")
