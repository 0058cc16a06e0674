package ibv

import "github.com/pureverbs/pureverbs/internal/leak"

// Unclosed returns the objects of ibv, rdmacm, mlx5dv, efadv and rdma in this process that are not closed or
// released yet, each as its name and the stack that made it. It is nil unless the environment has PUREVERBS_LEAKS=1.
// With it, what the garbage collector finds unclosed is also reported on standard error. The collector does not find
// what a goroutine or a timer of a package still uses, such as an Engine or a Lease of package rdma.
//
// It is safe for concurrent use.
func Unclosed() []string { return leak.Open() }
