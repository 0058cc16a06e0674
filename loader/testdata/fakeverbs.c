// A library that is libibverbs by name only.
int ibv_fork_init(void) { return 0; }
int ibv_only_here(void) { return 7; }
