package rdmacm

import (
	"errors"
	"net/netip"
)

// bindTries is how many ports that the kernel chooses for IPv6 may be in use for IPv4.
const bindTries = 16

// bind makes the IDs. For [::] there is one for each family: an ID of both would get the requests of both, except from
// iWARP devices, where Linux resets connections over IPv4. With either, a host without IPv6 is no error.
func (l *Listener) bind(at netip.AddrPort, either bool) error {
	if at.Addr() != netip.IPv6Unspecified() || l.opt.AFOnly {
		_, err := l.bindOne(at, l.opt)
		return err
	}
	for try := 1; ; try++ {
		only := l.opt
		only.AFOnly = true
		port, err := l.bindOne(at, only)
		if err != nil && (!either || port != 0) {
			return err
		}
		if err != nil {
			port = at.Port()
		}
		_, err = l.bindOne(netip.AddrPortFrom(netip.IPv4Unspecified(), port), l.opt)
		if err == nil || at.Port() != 0 || try == bindTries {
			return err
		}
		if err := l.unbind(); err != nil {
			return err
		}
	}
}

// bindOne adds an ID that is bound to an address, and returns its port. If that fails, there is none.
func (l *Listener) bindOne(at netip.AddrPort, opt Options) (uint16, error) {
	id, err := l.hub.ch.CreateID(opt.portSpace())
	if err != nil {
		return 0, err
	}
	l.hub.serve(id, l)
	if err = opt.apply(id); err == nil {
		err = id.Bind(at)
	}
	if err != nil {
		return id.LocalAddr().Port(), errors.Join(err, dispose(id))
	}
	l.ids = append(l.ids, id)
	return id.LocalAddr().Port(), nil
}

// unbind closes the IDs.
func (l *Listener) unbind() error {
	var errs []error
	for _, id := range l.ids {
		errs = append(errs, dispose(id))
	}
	l.ids = nil
	return errors.Join(errs...)
}
