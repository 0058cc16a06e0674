package usercm

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// kernel takes commands as a test wants it.
type kernel func(command, resp []byte) (int, error)

func (k kernel) Write(command, resp []byte) (int, error) { return k(command, resp) }

// header reads the header of a command.
func header(b []byte) (c Command, in, out int) {
	return Command(binary.NativeEndian.Uint32(b)), int(binary.NativeEndian.Uint16(b[4:])),
		int(binary.NativeEndian.Uint16(b[6:]))
}

// TestCommands compares each command with rdma/rdma_user_cm.h: its number, its length, that of its response, and the
// place of the ID, behind the header.
func TestCommands(t *testing.T) {
	const id = 0x1d1d1d1d
	for _, tc := range []struct {
		command     Command
		number      uint32
		in, out, at int
		write       func(w Writer) error
	}{
		{CmdCreateID, 0, 24, 4, -1, func(w Writer) error {
			q, n := abi.UCMCreateID{UID: 1, PS: 2, QPType: 3}, uint32(0)
			return Ask(w, CmdCreateID, &q, &q.Response, &n)
		}},
		{CmdDestroyID, 1, 16, 4, 8, func(w Writer) error {
			q, n := abi.UCMQuery{ID: id}, uint32(0)
			return Ask(w, CmdDestroyID, &q, &q.Response, &n)
		}},
		{CmdResolveRoute, 4, 8, 0, 0, func(w Writer) error { return Tell(w, CmdResolveRoute, &abi.UCMIDArg{ID: id}) }},
		{CmdConnect, 6, 288, 0, 272, func(w Writer) error { return Tell(w, CmdConnect, &abi.UCMConnect{ID: id}) }},
		{CmdListen, 7, 8, 0, 0, func(w Writer) error { return Tell(w, CmdListen, &abi.UCMIDArg{ID: id}) }},
		{CmdAccept, 8, 296, 0, 280, func(w Writer) error { return Tell(w, CmdAccept, &abi.UCMAccept{ID: id}) }},
		{CmdReject, 9, 264, 0, 0, func(w Writer) error { return Tell(w, CmdReject, &abi.UCMReject{ID: id}) }},
		{CmdDisconnect, 10, 4, 0, 0, func(w Writer) error { n := uint32(id); return Tell(w, CmdDisconnect, &n) }},
		{CmdInitQPAttr, 11, 16, 144, 8, func(w Writer) error {
			q, r := abi.UCMQuery{ID: id}, abi.UverbsQPAttr{}
			return Ask(w, CmdInitQPAttr, &q, &q.Response, &r)
		}},
		{CmdGetEvent, 12, 8, 336, -1, func(w Writer) error {
			q, r := abi.UCMGetEvent{}, abi.UCMEventResp{}
			return Ask(w, CmdGetEvent, &q, &q.Response, &r)
		}},
		{CmdSetOption, 14, 24, 0, 8, func(w Writer) error {
			q := abi.UCMSetOption{ID: id}
			return Give(w, CmdSetOption, &q, &q.Optval, []byte{7})
		}},
		{CmdNotify, 15, 8, 0, 0, func(w Writer) error { return Tell(w, CmdNotify, &abi.UCMIDArg{ID: id}) }},
		{CmdMigrateID, 18, 16, 4, 8, func(w Writer) error { _, err := Migrate(w, id, 3); return err }},
		{CmdQueryRoute, 5, 16, 208, 8, func(w Writer) error {
			q, r := abi.UCMQuery{ID: id}, abi.UCMQueryRouteResp{}
			return Ask(w, CmdQueryRoute, &q, &q.Response, &r)
		}},
		{CmdQuery, 19, 16, 280, 8, func(w Writer) error {
			q, r := abi.UCMQuery{ID: id, Arg: QueryAddr}, abi.UCMQueryAddrResp{}
			return Ask(w, CmdQuery, &q, &q.Response, &r)
		}},
		{CmdBind, 20, 136, 0, 0, func(w Writer) error { return Tell(w, CmdBind, &abi.UCMBind{ID: id}) }},
		{CmdResolveAddr, 21, 272, 0, 0, func(w Writer) error {
			return Tell(w, CmdResolveAddr, &abi.UCMResolveAddr{ID: id})
		}},
		{CmdJoinMcast, 22, 152, 4, 16, func(w Writer) error {
			q, n := abi.UCMJoinMcast{ID: id}, uint32(0)
			return Ask(w, CmdJoinMcast, &q, &q.Response, &n)
		}},
		{CmdWriteCMEvent, 24, 320, 0, 0, func(w Writer) error {
			return Tell(w, CmdWriteCMEvent, &abi.UCMWriteCMEvent{ID: id})
		}},
	} {
		var got []byte
		err := tc.write(kernel(func(command, resp []byte) (int, error) {
			got = slices.Clone(command)
			if len(resp) != tc.out {
				t.Errorf("%v: room for %d bytes of response, want %d", tc.command, len(resp), tc.out)
			}
			return len(command), nil
		}))
		if err != nil {
			t.Errorf("%v: %v", tc.command, err)
			continue
		}
		c, in, out := header(got)
		if uint32(c) != tc.number || c != tc.command || in != tc.in || out != tc.out || len(got) != 8+in {
			t.Errorf("%v: number %d, %d bytes, %d by the header, response %d; want %d, %d, %d", tc.command, c, len(got),
				in, out, tc.number, tc.in, tc.out)
		}
		if tc.at >= 0 && binary.NativeEndian.Uint32(got[8+tc.at:]) != id {
			t.Errorf("%v: the ID is not at %d", tc.command, tc.at)
		}
		if strings.HasPrefix(tc.command.String(), "Command(") {
			t.Errorf("%v has no name", tc.command)
		}
	}
}

// TestAddresses: what the kernel writes and reads is where the command says.
func TestAddresses(t *testing.T) {
	q, n := abi.UCMCreateID{}, uint32(0)
	err := Ask(kernel(func(command, resp []byte) (int, error) {
		if at := binary.NativeEndian.Uint64(command[16:]); at != addressOf(resp) {
			t.Errorf("the command has %#x, the response is at %#x", at, addressOf(resp))
		}
		binary.NativeEndian.PutUint32(resp, 17)
		return len(command), nil
	}), CmdCreateID, &q, &q.Response, &n)
	if err != nil || n != 17 {
		t.Errorf("%d, %v", n, err)
	}

	value := []byte{1, 2, 3, 4}
	o := abi.UCMSetOption{Optlen: 4}
	if err := Give(kernel(func(command, _ []byte) (int, error) {
		if at := binary.NativeEndian.Uint64(command[8:]); at != addressOf(value) {
			t.Errorf("the command has %#x, the value is at %#x", at, addressOf(value))
		}
		return len(command), nil
	}), CmdSetOption, &o, &o.Optval, value); err != nil {
		t.Error(err)
	}
}

// TestWrite: a command that a signal has interrupted is written again, one that was cut is an error, and a failed
// command leaves the response alone.
func TestWrite(t *testing.T) {
	tell := func(k kernel) error { return Tell(k, CmdListen, &abi.UCMIDArg{}) }
	calls := 0
	err := tell(func(command, _ []byte) (int, error) {
		if calls++; calls < 3 {
			return -1, syscall.EINTR
		}
		return len(command), nil
	})
	if err != nil || calls != 3 {
		t.Errorf("%d calls, %v", calls, err)
	}
	for _, n := range []int{0, 8, 15, 17} {
		var reply *ReplyError
		err := tell(func([]byte, []byte) (int, error) { return n, nil })
		if !errors.As(err, &reply) || !errors.Is(err, syscall.EPROTO) || reply.Command != CmdListen {
			t.Errorf("%d bytes of 16 taken: %v", n, err)
		}
	}
	q, n := abi.UCMQuery{}, uint32(5)
	err = Ask(kernel(func(_, resp []byte) (int, error) {
		binary.NativeEndian.PutUint32(resp, 9)
		return -1, syscall.ENOENT
	}), CmdDestroyID, &q, &q.Response, &n)
	if err != syscall.ENOENT || n != 5 {
		t.Errorf("%d, %v", n, err)
	}
}

// TestLeftOut: a field that the kernel does not write keeps its value.
func TestLeftOut(t *testing.T) {
	q, r := abi.UCMQuery{}, abi.UCMQueryAddrResp{DeviceIndex: 1 << 31}
	err := Ask(kernel(func(command, resp []byte) (int, error) {
		clear(resp[:272])
		return len(command), nil
	}), CmdQuery, &q, &q.Response, &r)
	if err != nil || r.DeviceIndex != 1<<31 {
		t.Errorf("index %#x, %v", r.DeviceIndex, err)
	}
}

// TestEventParam reads the three kinds of an event's parameter where the kernel has them.
func TestEventParam(t *testing.T) {
	var e abi.UCMEventResp
	for i := range e.Param {
		e.Param[i] = byte(i)
	}
	at := func(i int) uint32 { return binary.NativeEndian.Uint32(e.Param[i:]) }
	c := Conn(&e)
	if c.QPNum != at(0) || c.QKey != at(4) || c.PrivateData[0] != 8 || c.PrivateDataLen != e.Param[264] ||
		c.ResponderResources != e.Param[266] || c.InitiatorDepth != e.Param[267] || c.RNRRetryCount != e.Param[270] {
		t.Errorf("%+v", c)
	}
	u := UD(&e)
	if u.QPNum != at(0) || u.QKey != at(4) || u.AHAttr.GRH.DGID != abi.GID(e.Param[8:24]) ||
		u.AHAttr.GRH.FlowLabel != at(24) || u.AHAttr.PortNum != e.Param[38] || u.PrivateData[0] != 40 ||
		u.PrivateDataLen != e.Param[296] {
		t.Errorf("%+v", u)
	}
	w := abi.UCMWriteCMEvent{}
	SetArg(&w, Arg(&e))
	if Arg(&e) != binary.NativeEndian.Uint64(e.Param[:]) || [8]byte(w.Param[:8]) != [8]byte(e.Param[:8]) {
		t.Errorf("%#x", Arg(&e))
	}
}

// TestQPAttr: each attribute arrives in its place.
func TestQPAttr(t *testing.T) {
	a := abi.UverbsQPAttr{QPAttrMask: 1, QPState: 2, CurQPState: 3, PathMTU: 4, PathMigState: 5, QKey: 6,
		RQPSN: 7, SQPSN: 8, DestQPNum: 9, QPAccessFlags: 10, AHAttr: abi.AHAttr{DLID: 11},
		AltAHAttr: abi.AHAttr{DLID: 12}, Cap: abi.QPCap{MaxSendWR: 13}, PKeyIndex: 14,
		AltPKeyIndex: 15, EnSqdAsyncNotify: 16, SQDraining: 17, MaxRdAtomic: 18, MaxDestRdAtomic: 19, MinRNRTimer: 20,
		PortNum: 21, Timeout: 22, RetryCnt: 23, RNRRetry: 24, AltPortNum: 25, AltTimeout: 26}
	want := abi.QPAttr{QPState: 2, CurQPState: 3, PathMTU: 4, PathMigState: 5, QKey: 6, RQPSN: 7, SQPSN: 8,
		DestQPNum: 9, QPAccessFlags: 10, AHAttr: abi.AHAttr{DLID: 11}, AltAHAttr: abi.AHAttr{DLID: 12},
		Cap:       abi.QPCap{MaxSendWR: 13},
		PKeyIndex: 14, AltPKeyIndex: 15, EnSqdAsyncNotify: 16, SQDraining: 17, MaxRdAtomic: 18, MaxDestRdAtomic: 19,
		MinRNRTimer: 20, PortNum: 21, Timeout: 22, RetryCnt: 23, RNRRetry: 24, AltPortNum: 25, AltTimeout: 26}
	if got := a.QPAttr(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestMoveRequests tries every number until a gap shows that no more were given out, and stops at once if the kernel
// refuses the thread.
func TestMoveRequests(t *testing.T) {
	var tried []uint32
	moved := map[uint32]bool{}
	err := MoveRequests(kernel(func(command, _ []byte) (int, error) {
		n, fd := binary.NativeEndian.Uint32(command[16:]), binary.NativeEndian.Uint32(command[20:])
		tried = append(tried, n)
		switch {
		case fd != 5:
			t.Fatalf("descriptor %d", fd)
		case n == 3 || n == 1000:
			moved[n] = true
			return len(command), nil
		case n == 7:
			return -1, syscall.EINVAL // of another file
		}
		return -1, syscall.ENOENT
	}), 5)
	if err != nil || len(moved) != 2 || len(tried) != 1000+1+1024 || tried[0] != 0 {
		t.Errorf("moved %v, tried %d numbers from %d on, %v", moved, len(tried), tried[0], err)
	}
	calls := 0
	err = MoveRequests(kernel(func([]byte, []byte) (int, error) { calls++; return -1, syscall.EACCES }), 5)
	if err != syscall.EACCES || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}
