package mlx5dv_test

import (
	"log"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/mlx5dv"
)

// The frames of a VXLAN network, taken out of their tunnel, go to a QP. Each has the network's number as its tag.
func ExampleCreateFlowMatcher() {
	var (
		dev *ibv.Device // open
		qp  *ibv.QP     // of type RawPacket
	)
	const network = 7
	mask := mlx5dv.Match{
		Outer: mlx5dv.MatchHeaders{IPVersion: 0xf, UDPDstPort: 0xffff},
		Misc:  mlx5dv.MatchMisc{VXLANVNI: 1<<24 - 1},
	}
	m, err := mlx5dv.CreateFlowMatcher(dev, &mlx5dv.FlowMatcherOptions{Mask: mask})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	out, err := mlx5dv.CreateReformatAction(dev, mlx5dv.TableNICRx, mlx5dv.ReformatL2FromTunnel, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer out.Close()
	value := mlx5dv.Match{
		Outer: mlx5dv.MatchHeaders{IPVersion: 4, UDPDstPort: 4789},
		Misc:  mlx5dv.MatchMisc{VXLANVNI: network},
	}
	f, err := m.CreateFlow(&value, mlx5dv.FlowToQP{QP: qp}, mlx5dv.FlowApply{Action: out}, mlx5dv.FlowTag(network))
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
}
