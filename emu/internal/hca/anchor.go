//go:build linux

package hca

import "golang.org/x/sys/unix"

// Anchor stands for a priority of the kernel's tables.
type Anchor struct {
	Held
	ID uint32
}

// CreateAnchor makes an anchor. Those of one priority have one number.
func CreateAnchor(c *Context, t Table, priority uint16) (*Anchor, unix.Errno) {
	switch {
	case t > lastTable:
		return nil, unix.EINVAL
	case t > TableTx:
		return nil, unix.EOPNOTSUPP
	case priority > maxFlowPriority:
		return nil, unix.ENOMEM
	}
	const firstTable = 0x100
	return added(c, &Anchor{c.held(rankOfRule, "steering anchor"), firstTable + uint32(t)<<8 + uint32(priority)})
}
