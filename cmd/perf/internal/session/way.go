package session

import "github.com/pureverbs/pureverbs/ibv"

// way is how the two ends meet and connect: by sockets, or by rdma_cm.
type way interface {
	// meet meets the peer, sets conn, and opens the device. waiting gets the port on which a server listens.
	meet(waiting func(port int)) error
	// makeQPs makes the queue pairs, and what the peer has to know of them.
	makeQPs(ibv.QPOptions) error
	// bringUp connects them to those that the peer has announced.
	bringUp() error
	// toward returns the destination of the datagrams of a queue pair, nil if the keys have it.
	toward(i int) *reach
	// describe adds what it knows to the setup.
	describe()
	// lost returns why the connection of a queue pair is gone, with its number, or nil.
	lost() (pair int, why error)
	// closeQPs closes the queue pairs.
	closeQPs() error
	// closeListener ends the refusal of further clients.
	closeListener() error
}
