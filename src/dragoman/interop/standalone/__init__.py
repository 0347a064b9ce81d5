"""Scripts that use an export without Dragoman. They are copied into its README.md, and imported by nobody."""
