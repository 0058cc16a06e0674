package ibv

import (
	"errors"
	"syscall"
	"testing"
)

func fakeTags(t *testing.T) (*side, *SRQ) {
	t.Helper()
	set(t, "tm_caps.max_tags", 64)
	set(t, "tm_caps.max_ops", 16)
	s := fakeSide(t, &CQOptions{Fields: FieldTMInfo, DataPath: DataPathOps})
	opt := &SRQOptions{Type: SRQTM, CQ: s.cq, MaxTags: 60, MaxTagOps: 15, MaxSGE: 2}
	srq := closing(t, must(s.pd.CreateSRQ(opt))(t))
	if get(t, "tm.tags") != 60 || get(t, "tm.ops") != 15 || srq.Type() != SRQTM {
		t.Errorf("%d tags, %d operations, type %v", get(t, "tm.tags"), get(t, "tm.ops"), srq.Type())
	}
	return s, srq
}

// tagWC polls one completion.
func tagWC(t *testing.T, cq *CQ) WCEx {
	t.Helper()
	var wc [1]WCEx
	if n, err := cq.PollEx(wc[:]); n != 1 || err != nil {
		t.Fatalf("%d completions, %v", n, err)
	}
	return wc[0]
}

// What comes to C of each operation.
func TestFake_TagOps(t *testing.T) {
	s, srq := fakeTags(t)
	var added uint32 // the handle of the last tag
	for _, c := range []struct {
		op   TagOp
		wc   WCOpcode
		want map[string]int
	}{
		{TagOp{ID: 1, Opcode: TagAdd, Signaled: true, Tag: 0xabcd, Mask: 0xff0, Unexpected: 3, Sync: true,
			SGEs: []SGE{s.mr.SGE(0, 100)}}, WCTMAdd,
			map[string]int{"tm.tag": 0xabcd, "tm.mask": 0xff0, "tm.size": 100, "tm.flags": 3}},
		{TagOp{ID: 2, Opcode: TagAdd, Signaled: true}, WCTMAdd, map[string]int{"tm.size": -1, "tm.flags": 1}},
		{TagOp{ID: 3, Opcode: TagDel, Signaled: true}, WCTMDel, map[string]int{"tm.flags": 1}},
		{TagOp{ID: 4, Opcode: TagSync, Signaled: true, Unexpected: 5}, WCTMSync,
			map[string]int{"tm.unexpected": 5, "tm.flags": 3}},
	} {
		op := []TagOp{c.op}
		if c.op.Opcode == TagDel {
			op[0].Handle, c.want["tm.deleted"] = added, int(added)
		}
		if n, err := srq.PostTagOps(op); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if c.op.Opcode == TagAdd {
			added = op[0].Handle
		}
		if wc := tagWC(t, s.cq); wc.ID != c.op.ID || wc.Opcode != c.wc || wc.Status != WCSuccess {
			t.Errorf("%+v", wc)
		}
		for name, want := range c.want {
			if got := get(t, name); got != want {
				t.Errorf("operation %d: %s is %#x, want %#x", c.op.ID, name, got, want)
			}
		}
	}
	if n, err := srq.PostTagOps(nil); n != 0 || err != nil {
		t.Error(n, err)
	}
}

// The program gets its own IDs, and a tag can be deleted until its message is there.
func TestFake_TagHandles(t *testing.T) {
	s, srq := fakeTags(t)
	other := closing(t, must(s.pd.CreateSRQ(&SRQOptions{Type: SRQTM, CQ: s.cq, MaxTags: 3, MaxTagOps: 3}))(t))
	gone := func(r *SRQ, h uint32) {
		t.Helper()
		n, err := r.PostTagOps([]TagOp{{Opcode: TagDel, Signaled: true, Handle: h}})
		wantErr(t, err, syscall.EINVAL, "Handle", "neither matched nor was deleted")
		if n != 0 {
			t.Errorf("%d accepted", n)
		}
	}
	gone(srq, 0)
	add := make([]TagOp, 3)
	for i := range add {
		add[i].RecvID = uint64(1000 + i)
	}
	if n, err := srq.PostTagOps(add); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	gone(other, add[0].Handle)
	match := func(h uint32, flags, status int) WC {
		t.Helper()
		set(t, "tm.match", int(h))
		set(t, "tm.wc_flags", flags)
		set(t, "tm.status", status)
		if _, err := srq.PostTagOps([]TagOp{{Opcode: TagSync}}); err != nil {
			t.Fatal(err)
		}
		set(t, "tm.match", -1)
		return tagWC(t, s.cq).WC
	}
	if wc := match(add[1].Handle, int(WCTMMatch), 0); wc.ID != 1001 {
		t.Errorf("%+v", wc)
	}
	if wc := match(add[1].Handle, int(WCTMDataValid), 0); wc.ID != 1001 {
		t.Errorf("%+v", wc)
	}
	gone(srq, add[1].Handle)
	if wc := match(add[2].Handle, 96, int(WCTMRndvIncomplete)); wc.ID != 1002 || wc.Status != WCTMRndvIncomplete {
		t.Errorf("%+v", wc)
	}
	gone(srq, add[2].Handle)
	if wc := match(0, 0, 0); wc.ID != 0 { // of a receive of the SRQ: the ID is what the library says
		t.Errorf("%+v", wc)
	}
	// What was refused is as before.
	set(t, "post.at", 2)
	set(t, "post.errno", int(syscall.ENOMEM))
	del := TagOp{Opcode: TagDel, Signaled: true, Handle: add[0].Handle}
	if n, err := srq.PostTagOps([]TagOp{{RecvID: 7}, del}); n != 1 || !errors.Is(err, ErrQueueFull) {
		t.Fatal(n, err)
	}
	set(t, "post.at", 0)
	if n, err := srq.PostTagOps([]TagOp{del}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	tagWC(t, s.cq)
	gone(srq, add[0].Handle)
	again := []TagOp{{RecvID: 8}}
	if n, err := srq.PostTagOps(again); n != 1 || err != nil || again[0].Handle != del.Handle {
		t.Fatal(n, err, again[0].Handle)
	}
	n, err := srq.PostTagOps([]TagOp{del, del})
	if n != 1 {
		t.Errorf("%d accepted", n)
	}
	wantErr(t, err, syscall.EINVAL, "Handle", "operation 1")
}

func TestFake_TagOpsRefused(t *testing.T) {
	s, srq := fakeTags(t)
	sync := TagOp{Opcode: TagSync}
	for _, c := range []struct {
		op   TagOp
		want string
	}{
		{TagOp{Opcode: 3}, "TagOpcode(3)"},
		{TagOp{Opcode: TagDel, SGEs: make([]SGE, 1)}, "nothing with TagDel"},
		{TagOp{Opcode: TagDel}, "true: without its completion"},
		{TagOp{SGEs: make([]SGE, 2)}, "sge"},
		{TagOp{SGEs: []SGE{{Length: 1 << 31}}}, "sge 0"},
	} {
		n, err := srq.PostTagOps([]TagOp{sync, c.op, sync})
		if n != 1 {
			t.Errorf("%d accepted", n)
		}
		wantErr(t, err, syscall.EINVAL, c.want, "operation 1")
	}
	set(t, "post.at", 2)
	for errno, want := range map[syscall.Errno]error{syscall.ENOMEM: ErrQueueFull, syscall.EIO: syscall.EIO} {
		set(t, "post.errno", int(errno))
		if n, err := srq.PostTagOps([]TagOp{sync, sync, sync}); n != 1 || !errors.Is(err, want) {
			t.Errorf("%v: %d accepted, %v", errno, n, err)
		}
	}
	for _, o := range []SRQOptions{{MaxTagOps: 1}, {MaxTags: 1}, {MaxTags: 65, MaxTagOps: 1},
		{MaxTags: 1, MaxTagOps: 17}, {MaxTags: -1, MaxTagOps: 1}} {
		o.Type, o.CQ = SRQTM, s.cq
		_, err := s.pd.CreateSRQ(&o)
		wantErr(t, err, syscall.EINVAL, "max_")
	}
	plain := closing(t, must(s.dev.CreateCQ(1, nil))(t))
	_, err := s.pd.CreateSRQ(&SRQOptions{Type: SRQTM, CQ: plain, MaxTags: 1, MaxTagOps: 1})
	wantErr(t, err, syscall.EINVAL, "FieldTMInfo")
	gone := must(s.pd.CreateSRQ(&SRQOptions{Type: SRQTM, CQ: s.cq, MaxTags: 1, MaxTagOps: 1}))(t)
	ok(t, gone.Close())
	_, err = gone.PostTagOps([]TagOp{sync})
	wantErr(t, err, ErrClosed)
}

// A device without tag matching says so before the library is asked; a library without the op, when it is needed.
func TestFake_TagsMissing(t *testing.T) {
	s := fakeSide(t, nil)
	_, err := s.pd.CreateSRQ(&SRQOptions{Type: SRQTM, CQ: s.cq, MaxTags: 1, MaxTagOps: 1})
	wantErr(t, err, ErrNotSupported, "tag matching", "in software")
	set(t, "null.post_srq_ops", 1)
	_, srq := fakeTags(t)
	_, err = srq.PostTagOps(make([]TagOp, 1))
	wantErr(t, err, ErrNotSupported, "tag matching")
}
