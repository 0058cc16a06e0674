package session

import (
	"cmp"
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
)

// memberQPN is the number of the queue pairs of a group.
const memberQPN = 0xffffff

// join makes the queue pair that receives a member of the group, which is sent to the peer instead of its own address.
func (s *Session) join() error {
	p := &s.plan
	if !p.Multicast || !p.Receives() {
		return nil
	}
	if s.port.LinkLayer != ibv.LinkEthernet {
		return fmt.Errorf("multicast (-g): %s port %d is %v, where the subnet manager has to admit members; "+
			"only RoCE is there", s.dev.Name(), s.plan.Link.IBPort, s.port.LinkLayer)
	}
	own := &s.own[0]
	s.unicast = own.GID
	g := cmp.Or(p.Group, s.usualGroup(own.GID))
	if p.Client() {
		g[15]++ // each end has its own
	}
	if err := s.qps[0].Init(&ibv.ConnectOptions{PKeyIndex: p.Link.PKeyIndex}); err != nil {
		return err
	}
	if err := s.qps[0].AttachMcast(g, 0); err != nil {
		return err
	}
	s.group = g
	own.GID, own.QPN, own.LID = g, memberQPN, 0
	return nil
}

// usualGroup returns perftest's group. It is an IPv4 group if the GID is an IPv4 address, because perftest wants both
// of one kind.
func (s *Session) usualGroup(own ibv.GID) ibv.GID {
	if s.plan.Bandwidth() && own.IsIPv4Mapped() {
		return ibv.GID{10: 0xff, 11: 0xff, 12: 239, 13: 201, 14: 133}
	}
	return ibv.GID{0xff, 1, 0, 0, 0, 2, 201, 133}
}

// leave undoes join.
func (s *Session) leave() error {
	if s.group.IsZero() {
		return nil
	}
	return s.qps[0].DetachMcast(s.group, 0)
}

// localGID returns the address of this end.
func (s *Session) localGID() ibv.GID {
	if !s.group.IsZero() {
		return s.unicast
	}
	return s.own[0].GID
}
