"""Ranked plans: from a request (workload, traffic or work, constraints) to hardware, layout, time and cost.

Input: a ``SizingRequest``. Output: a ``SizingResult`` with plans, best first, each with its speeds, power and price,
and with warnings. Plans that a legality rule blocks are left out, unless the request names the hardware and the
number of devices: that plan is always in the result, with the reason why it cannot run.
"""
