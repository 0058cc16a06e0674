package rsocket_test

import (
	"context"
	"fmt"

	"github.com/pureverbs/pureverbs/rdmacm/rsocket"
)

func ExampleEvents() {
	fmt.Println(rsocket.PollIn|rsocket.PollHup, rsocket.PollOut)
	// Output:
	// in|hup out
}

// One goroutine echoes what arrives at many sockets.
func ExamplePoller() {
	var sockets []*rsocket.Socket // connected
	p, err := rsocket.NewPoller()
	if err != nil {
		fmt.Println(err) // says what to install
		return
	}
	defer p.Close()
	for _, s := range sockets {
		if err := p.Add(s, rsocket.PollIn); err != nil {
			fmt.Println(err)
			return
		}
	}
	buf := make([]byte, 4096)
	for {
		ready, err := p.Wait(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, r := range ready {
			n, err := r.Socket.Recv(buf)
			if err == nil {
				_, err = r.Socket.Send(buf[:n])
			}
			if err != nil {
				_ = r.Socket.Close()
			}
		}
	}
}
