package ibv_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
)

// An endpoint travels as text, JSON or bytes; what arrives damaged is refused.
func ExampleEndpoint() {
	gid, err := ibv.ParseGID("::ffff:10.8.0.1")
	if err != nil {
		fmt.Println(err)
		return
	}
	me := ibv.Endpoint{Type: ibv.RC, QPN: 0x11, PSN: 0x3a51c, GID: gid, MTU: ibv.MTU1024, MaxRdAtomic: 8,
		MaxDestRdAtomic: 16}
	fmt.Println(me)

	wire, err := json.Marshal(me)
	if err != nil {
		fmt.Println(err)
		return
	}
	var peer ibv.Endpoint
	fmt.Println(json.Unmarshal(wire, &peer), peer == me)

	err = peer.UnmarshalText([]byte("pvep1,type=RC,qpn=0x1000000,psn=0"))
	var bad *ibv.EndpointError
	fmt.Println(errors.As(err, &bad), err)
	// Output:
	// pvep1,type=RC,qpn=0x000011,psn=0x03a51c,lid=0,gid=::ffff:10.8.0.1,mtu=1024,qkey=0x0,dest_rd_atomic=16,rd_atomic=8
	// <nil> true
	// true endpoint: qpn "0x1000000": at most 0xffffff
}

func ExampleRequiredAttrs() {
	required, optional, ok := ibv.RequiredAttrs(ibv.UD, ibv.StateReset, ibv.StateInit)
	fmt.Println(required, optional, ok)
	_, _, ok = ibv.RequiredAttrs(ibv.UD, ibv.StateReset, ibv.StateRTS)
	fmt.Println(ok)
	// Output:
	// State|PKeyIndex|Port|QKey 0 true
	// false
}
