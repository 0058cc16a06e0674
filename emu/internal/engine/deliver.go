//go:build linux

package engine

// deliver carries out a request that reached its responder.
func (rs *responder) deliver(x *exchange) verdict {
	switch x.w.opcode {
	case opAtomicCS, opAtomicFA, opMaskedCS, opMaskedFA:
		return rs.atomic(x)
	case opRead:
		return rs.read(x)
	case opWrite, opWriteImm:
		return rs.write(x)
	}
	return rs.send(x)
}
