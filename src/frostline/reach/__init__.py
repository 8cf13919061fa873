"""Getting into processes from outside: start-up, the process tree, the mailbox, fitness."""
