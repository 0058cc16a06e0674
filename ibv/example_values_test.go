package ibv_test

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// A GID is written as an IPv6 address; that of an IPv4 address on RoCE is a mapped one.
func ExampleParseGID() {
	for _, s := range []string{"fe80:0000:0000:0000:0e42:a1ff:fe03:651a", "::ffff:10.8.0.1", "10.8.0.1"} {
		gid, err := ibv.ParseGID(s)
		if err != nil {
			fmt.Println("not a GID:", s)
			continue
		}
		fmt.Println(gid, gid.Full(), gid.IsLinkLocal(), gid.Addr())
	}
	// Output:
	// fe80::e42:a1ff:fe03:651a fe80:0000:0000:0000:0e42:a1ff:fe03:651a true fe80::e42:a1ff:fe03:651a
	// ::ffff:10.8.0.1 0000:0000:0000:0000:0000:ffff:0a08:0001 false 10.8.0.1
	// not a GID: 10.8.0.1
}

func ExampleGIDFromAddr() {
	gid := ibv.GIDFromAddr(netip.MustParseAddr("10.8.0.1"))
	parsed, err := ibv.ParseGID("::ffff:10.8.0.1")
	fmt.Println(gid, gid.IsIPv4Mapped(), gid == parsed, err)
	// Output:
	// ::ffff:10.8.0.1 true true <nil>
}

// Times of attributes are encoded in five bits: a duration becomes the next longer one.
func ExampleTimeCodeFromDuration() {
	code, ok := ibv.TimeCodeFromDuration(50 * time.Millisecond)
	fmt.Println(uint8(code), code.Duration(), ok)
	timer, ok := ibv.RNRTimerFromDuration(100 * time.Microsecond)
	fmt.Println(uint8(timer), timer.Duration(), ok)
	// Output:
	// 14 67.108864ms true
	// 7 120µs true
}

func ExampleMTUFromBytes() {
	mtu, ok := ibv.MTUFromBytes(1500) // the largest that an Ethernet frame of that size carries
	fmt.Println(mtu, mtu.Bytes(), ok)
	// Output:
	// 1024 1024 true
}

// Values print their names, and sets all of them.
func ExampleAccessFlags() {
	fmt.Println(ibv.LocalWrite|ibv.RemoteWrite, ibv.RC, ibv.StateRTS, ibv.OpWriteImm, ibv.WCRetryExcErr)
	// Output:
	// LocalWrite|RemoteWrite RC RTS WriteImm RetryExcErr
}

// The error of a completion matches the error of its status, and says what to check.
func ExampleWC_Err() {
	wc := ibv.WC{ID: 7, Status: ibv.WCRetryExcErr}
	err := wc.Err()
	var failed *ibv.WCError
	fmt.Println(errors.As(err, &failed), errors.Is(err, ibv.WCRetryExcErr.Err()))
	fmt.Println(failed.Advice() != "", ibv.WCSuccess.Err())
	// Output:
	// true true
	// true <nil>
}

// An error says whether the host lacks a feature, or the request exceeds a limit.
func ExampleOpError() {
	limit := &ibv.LimitError{What: "max_send_wr", Asked: 99999, Limit: 32768, Where: "mlx5_0"}
	err := error(&ibv.OpError{Op: "create qp", Object: "mlx5_0", Err: limit})
	var over *ibv.LimitError
	if errors.As(err, &over) {
		fmt.Println(over.What, over.Asked, over.Limit)
	}
	fmt.Println(errors.Is(err, syscall.EINVAL), errors.Is(err, ibv.ErrNotSupported))
	// Output:
	// max_send_wr 99999 32768
	// true false
}

// The next key of a memory window differs in its lowest byte.
func ExampleNextRKey() {
	fmt.Printf("%#x %#x\n", ibv.NextRKey(0x1234_5600), ibv.NextRKey(0x1234_56ff))
	// Output:
	// 0x12345601 0x12345600
}
