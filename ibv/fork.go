package ibv

// QueryForkStatus asks the library; it needs rdma-core v35. Programs that start others by package
// os/exec need no protection: the child runs nothing of the parent before it becomes the other.
//
// C: ibv_is_fork_initialized(3).
func QueryForkStatus() (ForkStatus, error) {
	v, err := firstPath()
	if err != nil {
		return 0, err
	}
	n, err := v.IsForkInitialized()
	if err != nil {
		return 0, &OpError{Op: "query fork status", Err: err}
	}
	return ForkStatus(n), nil
}
