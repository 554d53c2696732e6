"""Plans of operators along one attribute, crossed with residuals of short ones: Γ = Σ_T C_T ⊗ A_T."""
