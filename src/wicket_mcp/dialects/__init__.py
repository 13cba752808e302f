"""The vocabularies an agent may speak: tables of tools over the core's verbs, with no state of their own."""
