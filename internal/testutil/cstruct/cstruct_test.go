package cstruct

import (
	"strings"
	"testing"
)

// TestControl compares structs that differ from struct ib_uverbs_qp_cap.
func TestControl(t *testing.T) {
	const c = "ib_uverbs_qp_cap"
	h := Headers{"rdma/ib_user_ioctl_verbs.h"}
	s := h.Structs(t, Compilers[0], []string{c})[c]
	for _, tt := range []struct {
		m    Mirror
		want string
	}{
		{Mirror{Go: struct{ MaxSendWR, MaxRecvWR, MaxSendSGE, MaxRecvSGE, MaxInlineData uint32 }{}}, ""},
		{Mirror{Go: struct{ MaxSendWR, _, _, _, Inline uint32 }{}}, ""},
		{Mirror{Go: struct{ MaxSendWR, _ uint32 }{}, Part: true}, ""},
		{Mirror{Go: struct{ First, _, _, _, _ uint32 }{}, Renamed: map[string]string{"First": "max_send_wr"}}, ""},
		{Mirror{Go: struct{ MaxSendWR, _ uint32 }{}}, "has 20 bytes"},
		{Mirror{Go: struct{ MaxRecvWR, MaxSendWR, _, _, _ uint32 }{}}, "has [max_send_wr] of 4 bytes at 0"},
		{Mirror{Go: struct{ _, _, MaxSGE, _, _ uint32 }{}}, ""},
		{Mirror{Go: struct{ _, _, MaxSendSGE, MaxRecvSGE, MaxInlineData uint32 }{}}, ""},
		{Mirror{Go: struct{ _, _, MaxRecvSGE, MaxSendSGE, _ uint32 }{}}, "has [max_send_sge] of 4 bytes at 8"},
		{Mirror{Go: struct {
			MaxSendWR uint64
			_, _, _   uint32
		}{}}, "has [] of 8 bytes at 0"},
	} {
		tt.m.C = c
		got := strings.Join(tt.m.problems(s), "; ")
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%T: %q, want %q", tt.m.Go, got, tt.want)
		}
	}
}
