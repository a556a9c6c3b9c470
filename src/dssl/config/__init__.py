"""Settings: schema, registry of methods, look-up, resolution, recipes."""
