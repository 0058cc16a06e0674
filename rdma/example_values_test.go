package rdma_test

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/rdma"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// Code that handles TCP's errors handles those of a broken connection.
func ExamplePeerError() {
	err := error(&rdma.PeerError{FramesSent: 12, FramesAcked: 9, Err: rdmacm.ErrDisconnected})
	fmt.Println(errors.Is(err, rdma.ErrPeerGone), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, rdmacm.ErrDisconnected))
	var gone *rdma.PeerError
	if errors.As(err, &gone) {
		fmt.Println("certainly arrived:", gone.FramesAcked, "perhaps:", gone.FramesSent-gone.FramesAcked)
	}
	// Output:
	// true true true
	// certainly arrived: 9 perhaps: 3
}

func ExampleAccess() {
	fmt.Println(rdma.MayRead | rdma.MayWrite)
	// Output:
	// MayRead|MayWrite
}
