package ibv

// ForkStatus reports whether registered memory survives a fork.
//
// C: enum ibv_fork_status.
type ForkStatus uint32

// Whether pages of registered memory stay with the parent of a fork.
const (
	ForkDisabled ForkStatus = 0 // they may move to the child. C: IBV_FORK_DISABLED.
	ForkEnabled  ForkStatus = 1 // libibverbs keeps them: RDMAV_FORK_SAFE. C: IBV_FORK_ENABLED.
	ForkUnneeded ForkStatus = 2 // the kernel does. C: IBV_FORK_UNNEEDED.
)

var forkNames = []string{"Disabled", "Enabled", "Unneeded"}

func (s ForkStatus) String() string { return enumString("ForkStatus", int64(s), forkNames) }

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
