package ops

import (
	"errors"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/work"
)

// Extended describes how a chain posts by the functions of a struct ibv_qp_ex, which ibv_wr_* calls.
type Extended struct {
	QP   uintptr // struct ibv_qp_ex *
	Type uint32  // IBV_QPT_*, which determines the setter of the address

	// DC has the setters of a DCI's address; nil on other QPs.
	DC *DCSetters

	SRD bool // of EFA: every operation has an address

	// DV is the struct mlx5dv_qp_ex of a QP that takes work requests of mlx5's own; 0 of others.
	DV uintptr

	// ClassicLists posts work requests with more than one SGE by post_send: the provider's setters of lists are wrong.
	ClassicLists bool
}

// extended is the state of such a chain.
type extended struct {
	Extended
	fn   *abi.QPEx
	room *Room         // nil where the provider itself refuses a full queue without harm
	bufs []abi.DataBuf // for an inline list

	by     control.Poster      // posts in place of the functions; else nil
	masked []work.MaskedAtomic // of the slots, for by
}

// ErrNoTail is returned for a QP of a context whose layout is not known.
var ErrNoTail = errors.New("the context is not part of a verbs_context, so the layout of struct ibv_qp_ex is not known")

// Extend makes the chain post by the functions of a struct ibv_qp_ex, in place of post_send. Nothing was posted yet.
func (c *SendChain) Extend(x Extended) error {
	fn := abi.QPExOf(x.QP)
	if fn == nil {
		return ErrNoTail
	}
	c.ex = &extended{Extended: x, fn: fn, bufs: cmem.Slice[abi.DataBuf](c.bufs, c.maxSGE)}
	c.dc = x.DC != nil
	return nil
}

// PostBy makes a Poster post the chain's slots, in place of post_send; dc means that slots name a DCT, masked that
// there are atomics with masks, whose operands are not in the slots. Nothing was posted yet.
func (c *SendChain) PostBy(dc, masked bool,
	by func(qp uintptr, slots []abi.SendWR, masked []work.MaskedAtomic) (control.Poster, error)) (err error) {
	x := &extended{}
	if masked {
		x.masked = make([]work.MaskedAtomic, len(c.wrs))
	}
	if x.by, err = by(c.qp, c.wrs, x.masked); err == nil {
		c.ex, c.dc = x, dc
	}
	return err
}

// CountRoom makes the chain, which is extended, begin sessions only if a Room reports room, and returns that Room; all
// means that each work request gives a completion.
func (c *SendChain) CountRoom(places int, all bool) *Room {
	c.ex.room = newRoom(places, all)
	return c.ex.room
}

// post posts slots [0,n). It returns how many were accepted, and an errno, 0 if all were.
func (x *extended) post(c *SendChain, n int) (done, errno int) {
	if x.by != nil {
		return x.by.Post(n)
	}
	for done < n {
		end := done + 1
		classic := x.classic(&c.wrs[done])
		for end < n && x.classic(&c.wrs[end]) == classic {
			end++
		}
		took := 0
		if classic {
			took, errno = c.postClassic(done, end)
		} else {
			took, errno = x.sessions(c, done, end)
		}
		done += took
		if errno != 0 {
			break
		}
	}
	return done, errno
}

// classic reports whether post_send has to post the slot.
func (x *extended) classic(w *abi.SendWR) bool { return x.ClassicLists && w.NumSGE > 1 }

// sessions posts slots [i,end) in as few sessions as there is room for. A session is posted as a whole or not at all,
// so after a refusal for lack of room a smaller one is tried.
func (x *extended) sessions(c *SendChain, i, end int) (done, errno int) {
	for n := end - i; n > 0; n = min(n, end-i-done) {
		if x.room != nil {
			if n = fit(c.wrs[i+done:i+done+n], x.room.Free()); n == 0 {
				return done, full
			}
		}
		switch e := x.session(c, i+done, i+done+n); {
		case e == 0:
			done += n
		case !isFull(e):
			return done, e
		case n == 1:
			return done, full
		default:
			n /= 2
		}
	}
	return done, 0
}

// session posts slots [i,end) between wr_start and wr_complete. It returns an errno, and then has posted nothing.
//
// The functions are read for each call, because providers replace them: libmlx5 from v40 on, when the QP changes its
// state.
func (x *extended) session(c *SendChain, i, end int) int {
	fn, qp := x.fn, x.QP
	ccall.Hot(fn.Start, qp, 0, 0)
	for k := i; k < end; k++ {
		w := &c.wrs[k]
		fn.WRID, fn.WRFlags = w.WRID, w.SendFlags
		operation(fn, qp, x.DV, w)
		if work.FieldsOf(w.Opcode)&work.Data == 0 {
			continue
		}
		switch {
		case x.DC != nil:
			x.DC.set(w)
		case x.SRD:
			x.setSRD(w)
		case x.Type == abi.IBV_QPT_UD:
			ccall.Hot6(fn.SetUDAddr, qp, uintptr(w.Wr[0]), uintptr(uint32(w.Wr[1])), uintptr(w.Wr[1]>>32), 0, 0)
		case x.Type == abi.IBV_QPT_XRC_SEND:
			ccall.Hot(fn.SetXRCSRQN, qp, uintptr(w.XRCRemoteSRQN), 0)
		}
		x.data(c, k)
	}
	if x.room != nil {
		x.room.reserve(c.wrs[i:end])
	}
	e := errno(int32(ccall.Hot(fn.Complete, qp, 0, 0)))
	if c.rung(e) {
		e = 0
	}
	if e != 0 && x.room != nil {
		x.room.giveBack()
	}
	return e
}

// data calls the setter of slot k's data, which every operation with data needs, even for no bytes.
func (x *extended) data(c *SendChain, k int) {
	fn, qp, w := x.fn, x.QP, &c.wrs[k]
	list := c.sges[k*c.maxSGE:][:w.NumSGE]
	switch {
	case w.SendFlags&abi.IBV_SEND_INLINE == 0 && len(list) == 1:
		ccall.Hot6(fn.SetSGE, qp, uintptr(list[0].LKey), uintptr(list[0].Addr), uintptr(list[0].Length), 0, 0)
	case w.SendFlags&abi.IBV_SEND_INLINE == 0:
		ccall.Hot(fn.SetSGEList, qp, uintptr(len(list)), w.SGList)
	case len(list) == 0:
		ccall.Hot(fn.SetInlineData, qp, c.first, 0)
	case len(list) == 1:
		ccall.Hot(fn.SetInlineData, qp, uintptr(list[0].Addr), uintptr(list[0].Length))
	default:
		for i := range list {
			x.bufs[i] = abi.DataBuf{Addr: uintptr(list[i].Addr), Length: uintptr(list[i].Length)}
		}
		ccall.Hot(fn.SetInlineDataList, qp, uintptr(len(list)), address(&x.bufs[0]))
	}
}
