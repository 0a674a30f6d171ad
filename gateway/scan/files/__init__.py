"""Every other kind of file: environment files, commands, configurations, Node sources, manifests and lock files."""
