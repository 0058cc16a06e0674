package mlx5dv_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/mlx5dv"
)

// What a device can do.
func ExampleQueryDevice() {
	dev, err := ibv.Open("mlx5_0")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	attr, err := mlx5dv.QueryDevice(dev)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(attr.Flags)
	if attr.Has&mlx5dv.HasCQECompression != 0 {
		fmt.Println("compressed completions:", attr.CQECompression.Formats)
	}
}

// The time at which the device completed a work request.
func ExampleReadClock() {
	var (
		dev *ibv.Device // open
		cq  *ibv.CQ     // of the direct data path
		wcs [16]ibv.WC
	)
	clock, err := mlx5dv.ReadClock(dev)
	if err != nil {
		log.Fatal(err)
	}
	n, err := cq.Poll(wcs[:])
	if err != nil {
		log.Fatal(err)
	}
	for i := range wcs[:n] {
		fmt.Println(wcs[i].ID, clock.Time(wcs[i].Timestamp))
	}
}

// A send that is written into the ring by hand.
func ExampleViewQP() {
	var (
		cq *ibv.CQ // made with ibv.DataPathRaw
		qp *ibv.QP // on it, and connected
		mr *ibv.MR
	)
	q, err := mlx5dv.ViewQP(qp)
	if err != nil {
		log.Fatal(err)
	}
	c, err := mlx5dv.ViewCQ(cq)
	if err != nil {
		log.Fatal(err)
	}
	q.Control(0, mlx5dv.OpSend, mlx5dv.WQESignaled, 2, 0) // two segments of 16 bytes: itself and one of data
	seg, sge := q.SQ.Entry(0)[16:], mr.SGE(0, 64)
	binary.BigEndian.PutUint32(seg, sge.Length)
	binary.BigEndian.PutUint32(seg[4:], sge.LKey)
	binary.BigEndian.PutUint64(seg[8:], sge.Addr)
	q.RingSend(1, 0) // one block in all; the last WQE begins at block 0
	for c.Entry(0) == nil {
	}
	c.Consumed(1)
}

// The device says how large a message can be: log_max_msg of its general capabilities.
func ExampleDevXCommand() {
	dev, err := ibv.Open("mlx5_0")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	in := make([]byte, 16)
	binary.BigEndian.PutUint16(in, 0x100) // QUERY_HCA_CAP
	binary.BigEndian.PutUint16(in[6:], 1) // general, as they are set
	out := make([]byte, 16+4096)
	if err := mlx5dv.DevXCommand(dev, in, out); err != nil {
		var refused *mlx5dv.CommandError
		if errors.As(err, &refused) {
			fmt.Println("the device answers", refused.Status)
		}
		log.Fatal(err)
	}
	fmt.Println(1<<(out[16+56]&0x1f), "bytes")
}
