package ibv

import (
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/work"
)

// CMOnly reports whether only the connection manager connects queue pairs: on iWARP it moves them to RTS, and to ERR
// when the connection ends. There QP.Connect and QP.Modify to RTR or RTS fail, and package rdmacm connects.
func (t TransportType) CMOnly() bool { return t == TransportIWARP }

// DialerFirst reports whether the side that dials has to send the first message. On iWARP the side that accepts must
// not send, read or write before a message has come (RFC 5044, 7.1.2), unless both adapters have agreed on an exchange
// of their own (RFC 6581). Not every adapter enforces that.
func (t TransportType) DialerFirst() bool { return t == TransportIWARP }

// SendsAcked reports whether the success of a send or a write means that the peer's adapter has the data. On iWARP it
// means only that the memory may be used again. There a read that is posted afterwards completes when the peer's
// adapter has what was sent and written before (RFC 5040, 5.5).
func (t TransportType) SendsAcked() bool { return t != TransportIWARP }

// Datagrams reports whether devices have queue pairs of type UD.
func (t TransportType) Datagrams() bool { return t != TransportIWARP }

// RNR reports whether a message that finds no receive is sent again: see ConnectOptions.RNRRetry. On iWARP it ends the
// connection, so there the peer must know how many receives it has.
func (t TransportType) RNR() bool { return t != TransportIWARP }

// ReadSink returns the access that memory needs for OpRead to put there what it has read: LocalWrite, and on iWARP also
// RemoteWrite, because the reply names the memory's key. So there the peer may write to such memory for as long as it
// is registered.
func (t TransportType) ReadSink() AccessFlags {
	if t == TransportIWARP {
		return LocalWrite | RemoteWrite
	}
	return LocalWrite
}

// stateOf returns where the state of a new queue pair is. The control path has that of ibv_modify_qp and ibv_query_qp,
// not that of a queue pair that the connection manager moves: such a one has a word of its own.
func (d *Device) stateOf(qp uintptr) *atomic.Uint32 {
	state := d.v.QPState(qp)
	if d.info.Transport.CMOnly() {
		own := new(atomic.Uint32)
		own.Store(state.Load()) // librdmacm has moved it to INIT
		state = own
	}
	return state
}

// NoteState records that the connection manager has moved a QP. It may be called after Close.
//
// Preconditions: the transport is CMOnly.
func (friends) NoteState(qp *QP, s QPState) { qp.sq.state.Store(uint32(s)) }

// moved records a state that Modify has set, where libibverbs does not do that.
func (qp *QP) moved(attr *QPAttr, mask QPAttrMask) {
	if mask&MaskState != 0 && qp.dev.info.Transport.CMOnly() {
		qp.sq.state.Store(uint32(attr.State))
	}
}

// checkCMOnly refuses what only the connection manager does. siw would take RTR and do nothing.
func (qp *QP) checkCMOnly(attr *QPAttr, mask QPAttrMask) error {
	if mask&MaskState == 0 || attr.State != StateRTR && attr.State != StateRTS || !qp.dev.info.Transport.CMOnly() {
		return nil
	}
	return &UnsupportedError{Feature: fmt.Sprintf("moving a queue pair of iWARP to %v without rdma_cm", attr.State),
		Need: "package rdmacm: the connection manager connects it", Have: "QP.Connect or QP.Modify on " + qp.dev.Name()}
}

// explainRefusal returns why the provider has refused a work request, or err.
func (sq *sender) explainRefusal(err error, op Opcode) error {
	qp := sq.qp
	if err == syscall.EPERM && qp.dev.siw() { // -1 of libsiw
		return fmt.Errorf("%w: the connection ends", syscall.ENOTCONN)
	}
	if err != errInvalid && !unsupported(err) || qp.dev.info.Transport != TransportIWARP {
		return err
	}
	var what string
	switch f := work.FieldsOf(uint32(op)); {
	case f&work.Imm != 0:
		what = "immediate data is"
	case f&work.Atomic != 0:
		what = "atomics are"
	default:
		return err
	}
	return &UnsupportedError{Feature: "posting " + op.String(),
		Need: "InfiniBand or RoCE; " + what + " an extension of iWARP (RFC 7306), which few adapters have",
		Have: qp.dev.Name() + ", an iWARP device without"}
}
