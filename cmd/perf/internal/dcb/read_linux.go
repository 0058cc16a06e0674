package dcb

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/netlink"
)

// Read asks the kernel for the state of an interface.
func Read(netdev string) (*Port, error) {
	p, err := read(netdev)
	if err != nil {
		return nil, fmt.Errorf("netlink (RTM_GETDCB) of %s: %w", netdev, err)
	}
	return p, nil
}

func read(netdev string) (*Port, error) {
	if len(netdev) == 0 || len(netdev) >= unix.IFNAMSIZ {
		return nil, unix.ENODEV
	}
	return netlink.With(unix.NETLINK_ROUTE, func(ask netlink.Ask) (*Port, error) { return port(ask, netdev) })
}

// port asks for the state of an interface.
func port(ask netlink.Ask, netdev string) (p *Port, err error) {
	err = ask(unix.RTM_GETDCB, 0, request(netdev), func(typ uint16, body []byte) (err error) {
		if typ != unix.RTM_GETDCB {
			return fmt.Errorf("message of type %d, want %d", typ, unix.RTM_GETDCB)
		}
		p, err = parse(body)
		return err
	})
	if err == nil && p == nil {
		err = errors.New("the kernel sent no state")
	}
	return p, err
}
