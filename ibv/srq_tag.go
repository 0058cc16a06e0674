package ibv

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
)

// TagOp is an operation on the tag list of an SRQ of type SRQTM.
//
// A message to a QP of such an SRQ begins with a header of 16 bytes: an operation (0 no tag, 1
// rendezvous, 2 its end, 3 eager), three zeros, four bytes for the receiver's TMInfo.Priv, and the tag,
// big-endian. The oldest tag that matches gets what follows, and its receive completes as WCTMRecv with
// WCTMMatch, and WCTMDataValid when the data is there, which may be in a second completion. Any other message is
// delivered to a receive of PostRecv, including its header. Those with a tag count as unexpected: tags that are added
// from then on match only once TagSync, or Sync, confirms that all of them were handled, so that messages do not
// overtake each other.
//
// C: struct ibv_ops_wr.
type TagOp struct {
	ID       uint64 // of the completion, if Signaled
	Opcode   TagOpcode
	Signaled bool

	// Sync confirms to the device that the program has handled Unexpected of the messages that no tag matched. TagSync
	// does nothing else.
	Sync       bool
	Unexpected uint32

	// TagAdd posts a receive for messages whose tag equals Tag in the bits of Mask. PostTagOps sets
	// Handle, by which TagDel takes the receive back, until it completes with WCTMDataValid.
	Handle    uint32
	RecvID    uint64 // WC.ID of the receive
	SGEs      []SGE
	Tag, Mask uint64
}

// PostTagOps changes the tag list of an SRQ of type SRQTM. It returns how many operations were
// accepted; if not all, the error is about ops[n]. It sets the Handle of each accepted TagAdd. Completions have the
// opcodes WCTMAdd, WCTMDel and WCTMSync.
//
// Places for operations become free by completions: ask for one now and then. TagDel must be Signaled, because only its
// completion reports whether the tag matched before; if so its status is WCTMErr. Unlike other posting, PostTagOps
// allocates, and waits for a Poll that is under way.
//
// C: ibv_post_srq_ops(3).
func (s *SRQ) PostTagOps(ops []TagOp) (int, error) {
	const op = "post tag ops"
	if err := s.enter(op); err != nil {
		return 0, err
	}
	defer s.leave()
	if s.typ != SRQTM {
		return 0, &OpError{Op: op, Object: s.name, Err: &ArgError{Arg: "SRQ", Got: s.typ.String(),
			Want: "one made with SRQOptions.Type SRQTM"}}
	}
	s.cq.mu.Lock()
	defer s.cq.mu.Unlock()
	t := s.cq.ops.tagged
	c, lists, bad := t.prepare(s, ops)
	s.mu.Lock()
	done, err := s.pd.dev.v.PostSRQOps(s.pd.dev.handle, s.handle, c, lists)
	s.mu.Unlock()
	t.settle(s, ops, c, done)
	switch {
	case err == nil:
		err = bad
	case isQueueFull(err):
		err = ErrQueueFull
	default:
		err = s.pd.dev.explainTM(err)
	}
	if err != nil {
		return done, &OpError{Op: op, Object: s.name, Err: err, Detail: fmt.Sprintf("operation %d", done)}
	}
	return done, nil
}

func (o *TagOp) check(maxSGE int) error {
	if o.Opcode > TagSync {
		return &ArgError{Arg: "Opcode", Got: o.Opcode.String(), Want: "TagAdd, TagDel or TagSync"}
	}
	if o.Opcode != TagAdd && len(o.SGEs) > 0 {
		return &ArgError{Arg: "SGEs", Got: "set", Want: "nothing with " + o.Opcode.String()}
	}
	if o.Opcode == TagDel && !o.Signaled {
		return &ArgError{Arg: "Signaled", Got: "false with TagDel",
			Want: "true: without its completion nobody knows whether the tag matched before"}
	}
	return checkRecv(&RecvWR{SGEs: o.SGEs}, maxSGE)
}

func (o *TagOp) toC() abi.OpsWR {
	w := abi.OpsWR{WRID: o.ID, Opcode: uint32(o.Opcode), TM: abi.TagOp{UnexpectedCnt: o.Unexpected, Handle: o.Handle,
		RecvWRID: o.RecvID, Tag: o.Tag, Mask: o.Mask}}
	if o.Signaled {
		w.Flags |= abi.IBV_OPS_SIGNALED
	}
	if o.Sync || o.Opcode == TagSync {
		w.Flags |= abi.IBV_OPS_TM_SYNC
	}
	return w
}

// checkTags reports what is wrong with an SRQ of type SRQTM.
func (o *SRQOptions) checkTags(d *Device) error {
	if err := d.v.needLibrary("tag matching"); err != nil {
		return err
	}
	if o.CQ.path != DataPathOps {
		return &UnsupportedError{Feature: "an SRQ with tag matching and " + o.CQ.path.String(),
			Need: "a CQ made with DataPathOps", Have: "completions that only the library decodes"}
	}
	tags, ops := numTags.of(&d.attr, o.MaxTags), numTagOps.of(&d.attr, o.MaxTagOps)
	if tags.most <= 0 {
		return d.explainTM(ErrNotSupported)
	}
	if o.CQ.ops.extended == nil {
		return &ArgError{Arg: "CQ", Got: "one without Fields", Want: "one made with CQOptions.Fields FieldTMInfo"}
	}
	for _, l := range []limit{tags, ops} {
		if l.asked < 1 {
			return &ArgError{Arg: l.what, Got: fmt.Sprint(l.asked), Want: fmt.Sprintf("1 to %d", l.most)}
		}
		if l.asked > l.most {
			return l.error(d.Name())
		}
	}
	return nil
}

// explainTM returns what tag matching needs.
func (d *Device) explainTM(err error) error {
	u := &UnsupportedError{Feature: "tag matching",
		Need: "a device whose DeviceAttrEx.TagMatching is not 0, such as ConnectX-5 on InfiniBand",
		Have: d.Name() + " without it; match tags in software"}
	if errors.Is(err, control.ErrNoOp) || unsupported(err) {
		if e := d.v.needLibrary("tag matching"); e != nil {
			return e
		}
		return u
	}
	if p, e := d.QueryPort(1); errors.Is(err, syscall.EINVAL) && e == nil && p.LinkLayer == LinkEthernet {
		// libmlx5's own QP for the list has no GRH (rdma-core v44.0, providers/mlx5/verbs.c:3481).
		u.Have = d.Name() + ", whose first port is Ethernet; match tags in software"
		return u
	}
	return err
}
