package ucma

import (
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// none is no number: the value of a response until the kernel has stored one.
const none = ^uint32(0)

// number writes a command that makes an object, and returns the kernel's number of it.
func number[Q any](w usercm.Writer, cmd usercm.Command, q *Q, at *uint64) (uint32, error) {
	n := none
	err := usercm.Ask(w, cmd, q, at, &n)
	if err == nil && n == none {
		err = &usercm.ReplyError{Command: cmd, What: "the ID", Got: "missing", Want: "a number"}
	}
	return n, err
}

// destroy writes a command that ends an object, and returns how many of its events the kernel has reported.
func destroy(w usercm.Writer, cmd usercm.Command, number uint32) (reported uint32, err error) {
	q := abi.UCMQuery{ID: number}
	err = usercm.Ask(w, cmd, &q, &q.Response, &reported)
	return reported, err
}
