package ibv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/internal/ops"
	"github.com/pureverbs/pureverbs/internal/work"
)

//go:generate go run ./gen
//go:generate go run ../internal/attrs

// A kind of work request is a row of work.Kinds. What only some kinds have is in a file of each, kind_NAME.go. Its
// functions are steps of posting: the directive //kind:STEP OPCODE names them, and kinds_gen.go has a switch for each
// step. A table of functions would make every work request that PostSend takes escape to the heap.

// opcodes returns the opcodes that the QP takes: those of its type, or those that the options name, without what the
// device or the library lacks.
func (o *QPOptions) opcodes(d *Device, path DataPath, m *qpMaker) uint32 {
	t := workType(o.Type)
	set := work.GrantedTo(t, work.ByType|work.ByAtomics)
	if o.SendOps != 0 {
		set = o.SendOps.opcodes()
	}
	set |= m.mlx5.Opcodes
	if path == DataPathDirect && o.SendOps == 0 || m.maxAtomic > 0 {
		set |= work.GrantedTo(t, work.ByMasks)
	}
	return set &^ d.lackedOps()
}

// namingOps returns the opcodes whose work requests name objects that are kept open, or memory of the QP.
func namingOps(t QPType, path DataPath) (set uint32) {
	set = fillOps
	if path == DataPathDirect {
		set = addOps
	}
	if t.named() {
		set |= work.WithFields(work.Data)
	}
	return set
}

// noListOrFlag is the error of a work request whose kind takes no SGEs and no flag Inline.
func noListOrFlag(wr *SendWR) error {
	return &ArgError{Arg: "SGEs and the flag Inline", Got: "set", Want: "nothing with " + wr.Opcode.String()}
}

// checkBare reports the data of a work request whose kind has none.
func checkBare(wr *SendWR) error {
	if len(wr.SGEs) > 0 || wr.Inline != nil || wr.Flags&Inline != 0 {
		return &ArgError{Arg: "SGEs and Inline", Got: "set", Want: "nothing with " + wr.Opcode.String()}
	}
	return nil
}

// noInlineFlag is the error of a work request whose kind takes no flag Inline.
func noInlineFlag(wr *SendWR) error {
	return &ArgError{Arg: "Flags", Got: wr.Flags.String(), Want: "without Inline with " + wr.Opcode.String()}
}

// addSend builds a send to an address on the direct data path.
func addSend(qp *QP, wr *SendWR, inline int) (ok bool, err error) {
	ah := wr.AH
	if !ah.acquire() {
		return false, ah.errClosed()
	}
	ok = qp.sq.direct.SQ.Add(request(wr), inline, ah.av) // libmlx5 keeps av until the AH is closed
	ah.release()
	return ok, nil
}

// fillSend writes a send to an address into slot i of the chain, and acquires the handle.
func fillSend(c *ops.SendChain, i int, wr *SendWR) error {
	if !wr.AH.acquire() {
		return wr.AH.errClosed()
	}
	c.Fill(i, request(wr), wr.AH.handle)
	return nil
}

func describeSGEs(sges []SGE) string {
	if len(sges) == 1 {
		return fmt.Sprintf("one of %d bytes", sges[0].Length)
	}
	return fmt.Sprint(len(sges))
}
