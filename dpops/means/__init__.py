"""What the mechanisms for means share: contribution bounds, grouping into arrays, capping, private quantiles."""
