// "/v1/shards": the threads that serve this host's adapters, and what each of them has done. An adapter's
// shard can be changed.
#include <string>
#include <utility>
#include <vector>

#include "api/answers.h"
#include "api/requests.h"
#include "api/routes.h"
#include "schema/rules.h"

namespace pvrdma::api {

struct ShardsAnswer {
  std::vector<snapshots::ShardSnapshot> shards;
  std::string why_one;
};

}  // namespace pvrdma::api

namespace pvrdma::schema {

template <>
inline constexpr auto kObject<snapshots::ShardSnapshot> = record(
    "Shard", field("number", &snapshots::ShardSnapshot::number),
    field("cpu", &snapshots::ShardSnapshot::cpu)
        .noted(R"("description": "The CPU on which it ran when it was asked")"),
    field("cpu_us", &snapshots::ShardSnapshot::cpu_us)
        .noted(R"("description": "CPU time of its thread since the daemon began")"),
    field("busy_percent", &snapshots::ShardSnapshot::busy_percent)
        .noted(
            R"("description": "How much of the last second it did not sleep. A shard that never sleeps has 100")"),
    field("is_ward", &snapshots::ShardSnapshot::is_ward)
        .noted(R"("description": "Whether the daemon moves adapters there that delay others")"),
    field("trouble", &snapshots::ShardSnapshot::trouble)
        .noted(R"("description": "Why its values are old; empty: they are not")"),
    field("adapters", &snapshots::ShardSnapshot::adapters),
    field("counters", &snapshots::ShardSnapshot::groups, api::CounterGroupsRule{})
        .noted(
            R"("description": "Those of GET /v1/stats, of this shard alone. \"rings\" is there if the host has several shards")"));

template <>
inline constexpr auto kObject<api::ShardsAnswer> =
    record("Shards", field("shards", &api::ShardsAnswer::shards),
           field("why_one", &api::ShardsAnswer::why_one)
               .noted(R"("description": "Why the host has one shard; empty: it has several")"));

template <>
inline constexpr auto kObject<adapters::Placed> = record(
    "PlacedAdapter", field("from", &adapters::Placed::from),
    field("to", &adapters::Placed::to).noted(R"("description": "Equal to \"from\": it was there already")"),
    field("pause_us", &adapters::Placed::pause, MicrosecondsRule{})
        .noted(R"("description": "For so long the adapter did nothing")"));

}  // namespace pvrdma::schema

namespace pvrdma::api {

void add_shard_route(Router& router, const ApiParts& parts) {
  router.add({"GET", "/v1/shards", "The threads that serve this host's adapters", nullptr,
              schema_for<ShardsAnswer>, [&source = parts.source, why_one = parts.why_one_shard](const Call&) {
                auto snapshot = source.take_snapshot(snapshots::SnapshotDetail::kAdapters);
                return snapshot ? ok(text_of(ShardsAnswer{std::move(snapshot->shards), why_one}))
                                : refuse(snapshot.error());
              }});
  router.add({"PUT", "/v1/adapters/{adapter}/shard",
              "Moves an adapter to another shard of this host; its guest and its peers see a pause",
              schema_for<ShardBody>, schema_for<adapters::Placed>,
              [&placement = parts.placement](const Call& call) {
                const auto body = body_of<ShardBody>(call);
                if (!body) return refuse(body.error());
                const auto placed = placement.place(call.names[0], body->shard);
                return placed ? ok(text_of(*placed)) : refuse(placed.error());
              }});
}

}  // namespace pvrdma::api
