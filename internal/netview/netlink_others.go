//go:build !linux

package netview

import (
	"errors"
	"net/netip"
)

func readAddresses() (addresses, error) { return addresses{}, errors.ErrUnsupported }

// Route returns the interface by which this host reaches a peer.
func Route(netip.Addr) (netdev string, err error) { return "", errors.ErrUnsupported }

// Source returns the address of an interface from which it reaches a peer.
func Source(netip.Addr, string, bool) (source netip.Addr, err error) {
	return source, errors.ErrUnsupported
}
