#include "pvrdmactl/domain_xml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pvrdma::ctl {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kFragment =
    R"(<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>VM-01</name>
  <metadata>
    <pvrdma:vm xmlns:pvrdma='https://pvrdma.invalid/libvirt/domain/1.0'>{&quot;name&quot;:&quot;VM-01&quot;}</pvrdma:vm>
  </metadata>
  <memory unit='MiB'>512</memory>
  <memoryBacking>
    <source type='memfd'/>
    <access mode='shared'/>
  </memoryBacking>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
  </os>
  <features>
    <acpi/>
    <apic/>
  </features>
  <devices>
    <interface type='network'>
      <source network='default'/>
      <mac address='52:54:00:00:00:01'/>
      <model type='vmxnet3'/>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x10' function='0x0' multifunction='on'/>
    </interface>
  </devices>
  <qemu:commandline>
    <qemu:arg value='-machine'/>
    <qemu:arg value='aux-ram-share=on'/>
    <qemu:arg value='-device'/>
    <qemu:arg value='{&quot;driver&quot;:&quot;vfio-user-pci&quot;,&quot;socket&quot;:&quot;/a&quot;}'/>
    <qemu:arg value='-qmp'/>
    <qemu:arg value='unix:/run/pvrdma/VM-01.vmm/qmp,server=on,wait=off'/>
  </qemu:commandline>
</domain>
)";

std::string domain(const std::string& inside, const std::string& attributes = "type='qemu'",
                   const std::string& machine = "machine='pc-q35-10.1'") {
  return "<domain " + attributes + "><name>VM-01</name><os><type arch='x86_64' " + machine +
         ">hvm</type></os>" + inside + "</domain>";
}
std::string merged(const std::string& text) {
  const auto done = merge_domain(text, kFragment);
  EXPECT_TRUE(done) << done.error().message;
  return done.value_or("");
}
std::string refusal(const std::string& text) {
  const auto done = merge_domain(text, kFragment);
  EXPECT_FALSE(done) << *done;
  return done ? "" : done.error().message;
}

TEST(DomainXml, AddsWhatTheVmNeeds) {
  EXPECT_EQ(merged(domain("")),
            R"(<domain xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0" type="qemu">
  <name>VM-01</name>
  <os>
    <type arch="x86_64" machine="pc-q35-10.1">hvm</type>
  </os>
  <metadata>
    <pvrdma:vm xmlns:pvrdma="https://pvrdma.invalid/libvirt/domain/1.0">{"name":"VM-01"}</pvrdma:vm>
  </metadata>
  <memory unit="MiB">512</memory>
  <memoryBacking>
    <source type="memfd"/>
    <access mode="shared"/>
  </memoryBacking>
  <devices>
    <memballoon model="none"/>
    <interface type="network">
      <source network="default"/>
      <mac address="52:54:00:00:00:01"/>
      <model type="vmxnet3"/>
      <address type="pci" domain="0x0000" bus="0x00" slot="0x10" function="0x0" multifunction="on"/>
    </interface>
  </devices>
  <features>
    <acpi/>
    <apic/>
  </features>
  <qemu:commandline>
    <qemu:arg value="-machine"/>
    <qemu:arg value="aux-ram-share=on"/>
    <qemu:arg value="-device"/>
    <qemu:arg value="{&quot;driver&quot;:&quot;vfio-user-pci&quot;,&quot;socket&quot;:&quot;/a&quot;}"/>
    <qemu:arg value="-qmp"/>
    <qemu:arg value="unix:/run/pvrdma/VM-01.vmm/qmp,server=on,wait=off"/>
  </qemu:commandline>
</domain>
)");
}

TEST(DomainXml, ASecondMergeChangesNothing) {
  const std::string once = merged(domain("<memory>1</memory><currentMemory>1</currentMemory>"));
  EXPECT_EQ(merged(once), once);
  EXPECT_THAT(once, Not(HasSubstr("currentMemory")));
}

TEST(DomainXml, KeepsWhatItDoesNotConcern) {
  const std::string xml = merged(domain(
      "<!-- mine --><memoryBacking><hugepages/><access "
      "mode='private'/></memoryBacking><features><pae/></features>"
      "<devices><disk type='file'><source file='/a&amp;b'/></disk><memballoon model='virtio'><stats "
      "period='5'/></memballoon></devices><q:commandline "
      "xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'>"
      "<q:arg value='-device'/><q:arg value='{\"driver\":\"vfio-user-pci\",\"old\":1}'/><q:arg value='-d'/>"
      "<q:env name='A' value='B'/></q:commandline>"));
  for (const char* kept : {"<!-- mine -->", "<hugepages/>", "<pae/>", "file=\"/a&amp;b\"",
                           "<q:arg value=\"-d\"/>", "<q:env name=\"A\" value=\"B\"/>"})
    EXPECT_THAT(xml, HasSubstr(kept));
  for (const char* replaced : {"private", "virtio", "stats", "old"})
    EXPECT_THAT(xml, Not(HasSubstr(replaced)));
  EXPECT_EQ(merged(xml), xml);
}

TEST(DomainXml, ReplacesItsOwnMetadata) {
  const std::string xml =
      merged(domain("<metadata><a:vm xmlns:a='urn:a'>theirs</a:vm>"
                    "<b:vm xmlns:b='https://pvrdma.invalid/libvirt/domain/1.0'>old</b:vm></metadata>"));
  EXPECT_THAT(xml, HasSubstr(R"(<a:vm xmlns:a="urn:a">theirs</a:vm>)"));
  EXPECT_THAT(xml, HasSubstr(R"(>{"name":"VM-01"}</pvrdma:vm>)"));
  EXPECT_THAT(xml, Not(HasSubstr("old")));
}

TEST(DomainXml, TheInterfaceWithTheMacKeepsItsNetwork) {
  const std::string xml = merged(
      domain("<devices><interface type='bridge'><mac address='52:54:00:00:00:01'/><source bridge='br0'/>"
             "<model type='virtio'/><driver name='vhost'/><address type='pci' bus='1' slot='0'/></interface>"
             "<interface type='user'><mac address='52:54:00:00:00:02'/></interface></devices>"));
  EXPECT_THAT(xml, HasSubstr(R"(<interface type="bridge">
      <mac address="52:54:00:00:00:01"/>
      <source bridge="br0"/>
      <model type="vmxnet3"/>
      <address type="pci" domain="0x0000" bus="0x00" slot="0x10" function="0x0" multifunction="on"/>
    </interface>)"));
  EXPECT_THAT(xml, HasSubstr("52:54:00:00:00:02"));
  EXPECT_THAT(xml, Not(HasSubstr("default")));
}

TEST(DomainXml, IsUtf8WhateverTheDomainWasWrittenIn) {
  const std::string text =
      "<?xml version='1.0' encoding='ISO-8859-1'?>\n" + domain("<title>caf\xe9\tbar</title>");
  EXPECT_THAT(merged(text), HasSubstr("<title>caf\xc3\xa9\tbar</title>"));
}

TEST(DomainXml, RefusesXmlOfAnotherDaemonThatLacksAnElement) {
  for (const std::string element : {"<memory unit='MiB'>512</memory>",
                                    "https://pvrdma.invalid/libvirt/domain/1.0", "<model type='vmxnet3'/>"}) {
    std::string fragment = kFragment;
    const auto at = fragment.find(element);
    ASSERT_NE(at, std::string::npos) << element;
    fragment.erase(at, element.size());
    const auto done = merge_domain(domain(""), fragment);
    ASSERT_FALSE(done) << element;
    EXPECT_EQ(done.error().message,
              "the daemon's XML lacks an element: does the daemon have the version of pvrdmactl?");
  }
}

TEST(DomainXml, SaysWhatIsWrong) {
  EXPECT_EQ(refusal(""), "line 1: not XML: it is empty: correct it, or take the output of virsh dumpxml");
  EXPECT_THAT(refusal("<domain>\n<name></domain>"), HasSubstr("line 2: not XML: "));
  EXPECT_THAT(refusal("<!DOCTYPE a [<!ENTITY b 'c'>]><domain>&b;</domain>"),
              HasSubstr("document type definition"));
  EXPECT_EQ(refusal("<network/>"), "the XML is not that of a domain: give the output of virsh dumpxml");
  EXPECT_THAT(refusal(domain("", "type='xen'")), HasSubstr("the domain has the type \"xen\""));
  EXPECT_THAT(refusal(domain("", "type='kvm'", "machine='pc-i440fx-10.1'")), HasSubstr("needs q35"));
  EXPECT_THAT(refusal(domain("<maxMemory>1</maxMemory>")), HasSubstr("<maxMemory>"));
  EXPECT_EQ(refusal("<domain type='kvm'><name>web</name><os/></domain>"),
            "the domain is called web and the VM VM-01: they must have the same name, rename one of them");
  EXPECT_EQ(refusal(domain("<devices><sound><address type='pci' slot='16' function='1'/></sound></devices>")),
            "a device of the domain, <sound>, is in the adapter's PCI slot 0x10: give it another <address>");
}

}  // namespace
}  // namespace pvrdma::ctl
