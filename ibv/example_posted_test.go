package ibv_test

import (
	"context"
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
)

// What failed, and what was posted before and after it.
func ExampleQP_Explain() {
	var (
		qp *ibv.QP // connected, and at work
		cq = qp.SendCQ()
	)
	for wc, err := range cq.Completions(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := qp.Explain(&wc, 4); err != nil {
			fmt.Printf("%+v\n", err) // the status, what to check, and a line for each work request around it
			return
		}
	}
}
