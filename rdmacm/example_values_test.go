package rdmacm_test

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/rdmacm"
)

// A refusal has the peer's reason and its private data.
func ExampleRejectError() {
	err := error(&rdmacm.RejectError{Reason: rdmacm.RejectConsumer, PrivateData: []byte("busy")})
	fmt.Println(errors.Is(err, rdmacm.ErrRejected), errors.Is(err, syscall.ECONNREFUSED))
	var refused *rdmacm.RejectError
	if errors.As(err, &refused) {
		fmt.Printf("%v: %s\n", refused.Reason == rdmacm.RejectConsumer, refused.PrivateData)
	}
	// Output:
	// true true
	// true: busy
}

// How much private data a connection carries depends on its port space.
func ExamplePortSpace() {
	for _, p := range []rdmacm.PortSpace{rdmacm.PortSpaceTCP, rdmacm.PortSpaceUDP} {
		fmt.Println(p, p.ConnectDataLimit(), p.AcceptDataLimit(), p.RejectDataLimit())
	}
	// Output:
	// TCP 56 196 148
	// UDP 180 136 136
}
