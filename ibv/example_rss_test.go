package ibv_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pureverbs/pureverbs/ibv"
)

// Frames of UDP over IPv4 are received by as many goroutines as there are WQs. Those of one
// connection go to one WQ.
func ExampleRSSOptions() {
	dev, err := ibv.Open("mlx5_0")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		log.Fatal(err)
	}
	mr, err := pd.AllocMR(4*64*2048, ibv.LocalWrite, nil)
	if err != nil {
		log.Fatal(err)
	}
	var wqs []*ibv.WQ
	for i := range 4 {
		cq, err := dev.CreateCQ(64, nil)
		if err != nil {
			log.Fatal(err)
		}
		wq, err := pd.CreateWQ(cq, &ibv.WQOptions{MaxWR: 64})
		if err != nil {
			log.Fatal(err)
		}
		if err := wq.Modify(&ibv.WQAttr{State: ibv.WQReady}, ibv.MaskWQState); err != nil {
			log.Fatal(err)
		}
		for k := range 64 {
			at := (i*64 + k) * 2048
			if _, err := wq.PostRecv([]ibv.RecvWR{{ID: uint64(at), SGEs: []ibv.SGE{mr.SGE(at, 2048)}}}); err != nil {
				log.Fatal(err)
			}
		}
		wqs = append(wqs, wq)
	}
	table, err := dev.CreateRWQIndTable(wqs)
	if err != nil {
		log.Fatal(err)
	}
	qp, err := pd.CreateQP(nil, nil, &ibv.QPOptions{Type: ibv.RawPacket, RSS: &ibv.RSSOptions{Table: table,
		Fields: ibv.HashSrcIPv4 | ibv.HashDstIPv4 | ibv.HashSrcPortUDP | ibv.HashDstPortUDP}})
	if err != nil {
		log.Fatal(err)
	}
	udp := ibv.FlowIPv4{Value: ibv.FlowIPv4Fields{Protocol: 17}, Mask: ibv.FlowIPv4Fields{Protocol: 255}}
	if _, err := qp.CreateFlow(&ibv.FlowAttr{Port: 1, Specs: []ibv.FlowSpec{udp}}); err != nil {
		log.Fatal(err)
	}
	for _, wq := range wqs {
		go func() {
			var wcs [16]ibv.WC
			for {
				n, err := wq.CQ().Wait(context.Background(), wcs[:])
				if err != nil {
					return
				}
				for _, wc := range wcs[:n] {
					fmt.Printf("%x\n", mr.Bytes()[wc.ID:][:wc.ByteLen])
				}
			}
		}()
	}
}
