package librdmacm

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// struct rdma_event_channel *rdma_create_event_channel(void);
// The channel has an OS thread of its own if the process has changed its credentials.
func (l Lib) CreateEventChannel() (ch uintptr, err error) {
	owner, err := usercm.Own(func() (err error) {
		ch, err = l.lib.Ptr("rdma_create_event_channel")
		return err
	})
	if owner != nil {
		owners.Store(ch, owner)
	}
	return ch, err
}

// void rdma_destroy_event_channel(struct rdma_event_channel *channel);
func (l Lib) DestroyEventChannel(ch uintptr) {
	o, _ := owners.LoadAndDelete(ch) // before another channel may have the address
	_ = l.lib.Void("rdma_destroy_event_channel", ch)
	if owner, ok := o.(*usercm.Owner); ok {
		owner.End()
	}
}

// ChannelFD returns the descriptor of a struct rdma_event_channel.
func (l Lib) ChannelFD(ch uintptr) int { return fdOf(ch) }

// int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
// int rdma_ack_cm_event(struct rdma_cm_event *event);
// GetEvent, the only function that reads events, copies the event, calls do, and acknowledges it. Until then
// rdma_destroy_id waits, so that no other ID has the address of the event's: do looks up whose it is.
func (l Lib) GetEvent(ch uintptr, do func(*control.CMEvent)) error {
	ack, err := l.lib.Symbol("rdma_ack_cm_event")
	if err != nil {
		return err
	}
	out := new(uintptr)
	if err := l.write(ch, "rdma_get_cm_event", ch, uintptr(unsafe.Pointer(out))); err != nil {
		return err
	}
	ev := &control.CMEvent{RDMACMEvent: *cmem.At[abi.RDMACMEvent](*out)}
	switch ev.Event {
	case abi.RDMA_CM_EVENT_MULTICAST_JOIN, abi.RDMA_CM_EVENT_MULTICAST_ERROR:
		ev.UD = true // and its private data is the context of the join
	case abi.RDMA_CM_EVENT_CONNECT_REQUEST, abi.RDMA_CM_EVENT_CONNECT_RESPONSE, abi.RDMA_CM_EVENT_CONNECT_ERROR,
		abi.RDMA_CM_EVENT_UNREACHABLE, abi.RDMA_CM_EVENT_REJECTED, abi.RDMA_CM_EVENT_ESTABLISHED,
		abi.RDMA_CM_EVENT_DISCONNECTED:
		ev.UD = cmem.At[abi.RDMACMID](ev.ID).QPType == abi.IBV_QPT_UD
		ev.Data = cmem.Clone[byte](ev.Conn().PrivateData, int(ev.Conn().PrivateDataLen))
	}
	do(ev)
	_ = ccall.Minus1(ack, *out)
	return nil
}

// Response turns what a library that is Old makes of RDMA_CM_EVENT_CONNECT_RESPONSE, because the connecting ID has no
// QP, back into that event. Before v21 the library reports an error. v21 and v22 have told the peer already that the QP
// is ready; then Response returns true.
func (l Lib) Response(ev *control.CMEvent) (established bool) {
	switch s := l.State(ev.ID); {
	case ev.UD || s.HasQP || !l.Old(), s.Transport == abi.IBV_TRANSPORT_IWARP: // which has no such event
		return false
	case ev.Event == abi.RDMA_CM_EVENT_CONNECT_ERROR && pardon(ev.ID):
		ev.Status = 0
	case ev.Event == abi.RDMA_CM_EVENT_ESTABLISHED:
		established = true
	default:
		return false
	}
	ev.Event = abi.RDMA_CM_EVENT_CONNECT_RESPONSE
	return established
}
