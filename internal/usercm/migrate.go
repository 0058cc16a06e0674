package usercm

import (
	"errors"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// Migrate moves the kernel's ID to the file w, from the one with descriptor from. It returns how many events of the ID
// the program has got through that file.
func Migrate(w Writer, id uint32, from int) (reported uint32, err error) {
	q := abi.UCMQuery{ID: id, Arg: uint32(from)}
	err = Ask(w, CmdMigrateID, &q, &q.Response, &reported)
	return reported, err
}

// MoveRequests moves the connection requests that nobody has read from the file with descriptor from to the file w, to
// which their listeners have been moved. MIGRATE_ID has moved their events with the listener. But Linux from 5.10 on
// makes the ID of a request when it arrives, and leaves that ID where it is (drivers/infiniband/core/ucma.c,
// ucma_connect_event_handler). Its commands would fail, and the kernel would refuse the peer.
//
// The number of such an ID is the lowest that was free. So MoveRequests tries all numbers from 0 on, up to a gap that
// is too large to have come about since. It also moves the other IDs that are left at from.
func MoveRequests(w Writer, from int) error {
	const gap = 1024
	for n, free := uint32(0), 0; free < gap; n++ {
		switch _, err := Migrate(w, n, from); {
		case err == syscall.ENOENT:
			free++
		case errors.Is(err, syscall.EACCES):
			return err
		default:
			free = 0
		}
	}
	return nil
}
