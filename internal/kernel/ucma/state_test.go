package ucma

import (
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
)

// The fields of State, each by its own name.

func (c *CM) Verbs(h control.Handle) control.Handle    { return c.State(h).Verbs }
func (c *CM) Transport(h control.Handle) int32         { return c.State(h).Transport }
func (c *CM) Port(h control.Handle) uint8              { return c.State(h).Port }
func (c *CM) PKey(h control.Handle) uint16             { return c.State(h).PKey }
func (c *CM) Src(h control.Handle) sockaddr.Addr       { return c.State(h).Src }
func (c *CM) Dst(h control.Handle) sockaddr.Addr       { return c.State(h).Dst }
func (c *CM) HasQP(h control.Handle) bool              { return c.State(h).HasQP }
func (c *CM) GIDs(h control.Handle) (src, dst abi.GID) { return c.State(h).SGID, c.State(h).DGID }
