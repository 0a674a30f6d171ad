"""What makes a replica start fast (DeepFlow, section 6): a model of its steps, processes in wait, files read ahead."""
