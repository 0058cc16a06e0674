package session

import (
	"fmt"
	"slices"
	"sync"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/gid"
	"github.com/pureverbs/pureverbs/internal/netview"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// checkIndices checks the entries of -x and --pkey-index, so that a server does not wait for a client to find out.
func (s *Session) checkIndices() error {
	if s.takeGID() {
		return nil
	}
	table, err := s.dev.GIDTable()
	if err != nil {
		return err
	}
	view := newHere(table)
	for _, port := range s.plan.IBPorts() {
		name := fmt.Sprintf("%s port %d", s.dev.Name(), port)
		if x := s.plan.Link.GIDIndex; x != plan.Auto && s.plan.Transport != wire.RawEth {
			if x > gid.MaxIndex {
				return fmt.Errorf("gid index (-x) %d > %d, the highest that the verbs can name", x,
					gid.MaxIndex)
			}
			g, err := s.dev.QueryGID(port, x)
			if err == nil && g.IsZero() {
				err = ibv.ErrNotFound
			}
			if err != nil {
				return fmt.Errorf("gid index (-x) %d: %s has no such GID, show_gids lists them: %w", x, name, err)
			}
			if view.foreign(port, x) {
				return fmt.Errorf("gid index (-x) %d: %s, GID %v: %s: it is of another network namespace, as those "+
					"of other containers, or was removed; show_gids --up lists the indexes that can be used", x, name,
					g, gid.NotHere)
			}
		}
		if err := s.checkBest(port); err != nil {
			return err
		}
		if i := int(s.plan.Link.PKeyIndex); i > 0 {
			if _, err := s.dev.QueryPKey(port, i); err != nil {
				return fmt.Errorf("partition key (--pkey-index) %d: %s has none there: %w", i, name, err)
			}
		}
	}
	return s.keepGID()
}

// here compares the entries of a GID table with the addresses of this network namespace, which it reads once.
type here struct {
	table []ibv.GIDEntry
	view  func() *netview.View
}

func newHere(table []ibv.GIDEntry) *here {
	return &here{table, sync.OnceValue(func() *netview.View { return netview.New(sysfs.DefaultRoot()) })}
}

// foreign reports whether the address of an entry is none of this network namespace, though its table has it.
func (h *here) foreign(port uint8, index int) bool {
	i := slices.IndexFunc(h.table, func(e ibv.GIDEntry) bool { return e.Port == port && e.Index == index })
	if i < 0 {
		return false
	}
	g := &h.table[i]
	e := &sysfs.GIDEntry{Index: index, GID: sysfs.GID(g.GID), Type: gid.Type(g.Type), Netdev: g.Netdev}
	return h.view().Candidate(e, true).Address == gid.AddressNone
}

// checkBest checks that there is a GID to choose, where the test needs one.
func (s *Session) checkBest(port uint8) error {
	p := &s.plan
	if p.Link.GIDv6 {
		_, err := s.gidFor(port)
		return err
	}
	if p.Link.GIDIndex != plan.Auto || p.Peer.RDMACM || p.Transport == wire.RawEth || !s.port.GRHRequired() {
		return nil
	}
	if _, err := s.dev.BestGID(port); err != nil {
		return fmt.Errorf("%w; show_gids --why shows each", err)
	}
	return nil
}

// gidFor returns the index of the GID of a port, plan.Auto for the best one.
func (s *Session) gidFor(port uint8) (int, error) {
	if !s.plan.Link.GIDv6 {
		return s.plan.Link.GIDIndex, nil
	}
	best, err := s.dev.BestGIDFunc(port, func(e ibv.GIDEntry) bool {
		return e.Type != ibv.GIDTypeIB && !e.GID.IsIPv4Mapped()
	})
	if err != nil {
		return 0, fmt.Errorf("IPv6 GID (--ipv6): %w", err)
	}
	return best.Index, nil
}
