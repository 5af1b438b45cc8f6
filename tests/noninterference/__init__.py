"""The gate of non-interference: nothing public, on any road, follows from what one more vehicle did.

A world is run twice: as it is, and with one vehicle-day more (under public counts: with other speeds of one vehicle).
Every draw is frozen, and what the ledger keeps is replaced by draws alone, the same in both runs. Then

* all that is public must be equal, byte for byte: exit codes, what commands print but for the operator's part, names,
  order and bytes of files, the ledger but for digests, times and places in the chain, and hashes made of these;
* the integers that were offered to the ledger, sums and noise, must differ by no more than their plans claim: with
  equal plans and equal draws, what is left of the difference is what the vehicle put in.

That the gate can fail is shown by mutants (mutants.py, mutants_published.py): each is a leak that it must find.
"""
