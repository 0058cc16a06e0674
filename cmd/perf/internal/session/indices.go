package session

import (
	"fmt"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
)

// checkIndices checks the entries of -x and --pkey-index, so that a server does not wait for a client to find out.
func (s *Session) checkIndices() error {
	for _, port := range s.ports() {
		name := fmt.Sprintf("%s port %d", s.dev.Name(), port)
		if x := s.plan.GIDIndex; x != plan.Auto && s.plan.Transport != wire.RawEth {
			if x > 255 {
				return fmt.Errorf("gid index (-x) %d > 255, the highest that a packet's address can name", x)
			}
			g, err := s.dev.QueryGID(port, x)
			if err == nil && g.IsZero() && s.port.LinkLayer == ibv.LinkEthernet {
				err = ibv.ErrNotFound
			}
			if err != nil {
				return fmt.Errorf("gid index (-x) %d: %s has no such GID, show_gids lists them: %w", x, name, err)
			}
		}
		if _, err := s.gidFor(port); err != nil {
			return err
		}
		if i := int(s.plan.PKeyIndex); i > 0 {
			if _, err := s.dev.QueryPKey(port, i); err != nil {
				return fmt.Errorf("partition key (--pkey-index) %d: %s has none there: %w", i, name, err)
			}
		}
	}
	return nil
}

// gidFor returns the index of the GID of a port, plan.Auto for the best one.
func (s *Session) gidFor(port uint8) (int, error) {
	if !s.plan.GIDv6 {
		return s.plan.GIDIndex, nil
	}
	best, err := s.dev.BestGIDFunc(port, func(e ibv.GIDEntry) bool {
		return e.Type != ibv.GIDTypeIB && !e.GID.IsIPv4Mapped()
	})
	if err != nil {
		return 0, fmt.Errorf("IPv6 GID (--ipv6): %w", err)
	}
	return best.Index, nil
}
