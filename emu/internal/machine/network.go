//go:build linux && (amd64 || arm64)

package machine

import (
	"fmt"
	"net"
	"strings"

	"github.com/pureverbs/pureverbs/emu/internal/cm"
	"github.com/pureverbs/pureverbs/emu/internal/control"
	"github.com/pureverbs/pureverbs/emu/internal/netdev"
	"github.com/pureverbs/pureverbs/emu/internal/notify"
)

// network is where the program runs: net and links are nil if that is the machine's.
type network struct {
	net   *notify.Net
	links *netdev.Links
}

// newNetwork makes the network that was asked for, and adapts the configuration to it.
func newNetwork(o *Options) (*network, error) {
	if o.Network != "host" {
		nw, err := ownNetwork(o)
		if err == nil {
			return nw, nil
		}
		if o.Network == "own" {
			return nil, fmt.Errorf("%w: it takes CAP_SYS_ADMIN or, for a user other than root, user namespaces;"+
				" --net=host does without", err)
		}
	}
	o.Config.UseHost()
	return &network{}, nil
}

func ownNetwork(o *Options) (*network, error) {
	name := o.Control
	if !strings.HasPrefix(name, "@") {
		name = control.Name()
	}
	n, err := notify.NewNet(name)
	if err != nil {
		return nil, err
	}
	nw := &network{net: n}
	if nw.links, err = netdev.New(int(n.Route.Fd()), o.Config, o.Links); err != nil {
		nw.close()
		return nil, fmt.Errorf("make a network: %w", err)
	}
	return nw, nil
}

func (nw *network) close() {
	if nw.net != nil {
		nw.net.Close()
	}
}

// listen serves s where programs find it, and at the address that the user named, if not "".
func (nw *network) listen(s *control.Server, address string) error {
	if nw.net == nil {
		if address == "" {
			address = control.Name()
		}
		return s.Listen(address)
	}
	if address != "" {
		if err := s.Listen(address); err != nil {
			return err
		}
	}
	l, err := net.FileListener(nw.net.Listen)
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	s.Serve(l)
	return nil
}

// routes lets rdma_cm see the addresses and routes of the network.
func (nw *network) routes(c *cm.Server) {
	if nw.net == nil {
		return
	}
	udp := [2]int{int(nw.net.UDP[0].Fd()), -1}
	if f := nw.net.UDP[1]; f != nil {
		udp[1] = int(f.Fd())
	}
	c.Network(nw.links.Addrs, udp)
}
