package efadv_test

import (
	"fmt"
	"log"

	"github.com/pureverbs/pureverbs/efadv"
	"github.com/pureverbs/pureverbs/ibv"
)

func ExampleDeviceCaps() {
	fmt.Println(efadv.CapRead | efadv.CapWrite)
	// Output:
	// Read|Write
}

// An SRD queue pair is connected to itself, and sends to an address.
func ExampleCreateQP() {
	var (
		pd   *ibv.PD
		cq   *ibv.CQ      // created with ibv.DataPathOps
		peer ibv.Endpoint // from the peer's QP.Endpoint
		sges []ibv.SGE
	)
	qp, err := efadv.CreateQP(pd, cq, cq, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer qp.Close()
	local, err := qp.Endpoint(1, 0) // for the peer
	if err != nil {
		log.Fatal(err)
	}
	if err := qp.Connect(local, nil); err != nil {
		log.Fatal(err)
	}
	av, err := qp.Address(peer, nil)
	if err != nil {
		log.Fatal(err)
	}
	ah, err := pd.CreateAH(av)
	if err != nil {
		log.Fatal(err)
	}
	defer ah.Close()
	wr := ibv.SendWR{ID: 1, Opcode: ibv.OpSend, Flags: ibv.Signaled, SGEs: sges, AH: ah, RemoteQPN: peer.QPN,
		RemoteQKey: peer.QKey}
	if _, err := qp.PostSend([]ibv.SendWR{wr}); err != nil {
		log.Fatal(err)
	}
}
