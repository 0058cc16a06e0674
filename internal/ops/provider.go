package ops

// Provider tells how a provider behaves beyond its function pointers.
type Provider struct {
	// Kernel is set where posting a send and arming a CQ enter the kernel, as
	// with the software devices rxe and siw. Such calls may last, so they go
	// through the scheduler's entry for system calls and not the g0 stack,
	// where they would hold up a stop-the-world.
	Kernel bool
}
