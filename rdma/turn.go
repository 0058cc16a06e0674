package rdma

import "github.com/pureverbs/pureverbs/rdma/internal/turn"

// bound may end a wait.
type bound = turn.Bound

var errWouldWait = turn.ErrWouldWait

// leave returns what Bound.Enter took.
func leave(ch chan struct{}) { turn.Leave(ch) }
